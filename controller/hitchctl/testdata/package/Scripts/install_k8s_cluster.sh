#!/bin/sh
# installs the base cluster
