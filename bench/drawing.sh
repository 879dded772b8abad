# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh disable=SC2034 # the scripts that draw use what stands here
# What the scripts that draw with gnuplot begin with: a folder for data, and the colour of text and axes.  The pictures
# have no background; their colours can be read on white and on black.
if ! command -v gnuplot >/dev/null 2>&1; then
	echo "plot: no gnuplot, no picture"
	exit 0
fi
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
grey='#768390'
