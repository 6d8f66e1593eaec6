#!/usr/bin/env bash
# Installs the wheel of `make wheel` as docs/running.md says, into an environment outside of the checkout, and runs `kappa demo` there until
# somebody was notified of an incident.
#
#   deploy/wheel_demo.sh DIST [PYTHON]
set -euo pipefail
dist=$(realpath "$1") python=$(realpath "$(command -v "${2:-python3}")")
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
cd "$away"
"$python" -m venv venv
for file in build.txt requirements.txt; do
	(cd "$dist" && "$away/venv/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation -r "$file")
done
venv/bin/python -m models
echo "wheel-demo: installed after $SECONDS s"
# In an empty home: nothing of this user's is seen, and all that is needed is fetched.
HOME="$away" venv/bin/kappa demo --minutes "${MINUTES:-20}" --until-notified
echo "wheel-demo: done after $SECONDS s"
