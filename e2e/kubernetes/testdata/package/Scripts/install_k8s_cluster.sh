#!/bin/sh
# Joins nothing: the test does what an owner would have this script do.
