#!/bin/sh
# nodehitch never runs it: the parameters name a script, so the package has one.
exit 1
