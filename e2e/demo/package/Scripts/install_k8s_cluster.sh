#!/bin/sh
# The base cluster is not part of this demonstration: the parameters name a
# script, so the package has one. nodehitch never runs it.
exit 0
