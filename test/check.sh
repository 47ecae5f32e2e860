#!/usr/bin/env bash
# make check: what most often makes .ci/run fail. It looks at the packages whose files differ from BASE, and tests these,
# then those that import them. After LIMIT seconds, 300 by default, it begins no further package, and prints what it leaves out.
set -uo pipefail
cd "$(dirname "$0")/.."
. test/base.sh
limit=${LIMIT:-300} # seconds
status=0
export BASE
step() { echo "$((SECONDS))s: $1" >&2; }
failed() { echo "FAILED: $1" >&2; status=1; }

git rev-parse -q --verify "${BASE:-none}^{commit}" >/dev/null || { echo "BASE=${BASE:-} is no commit: name one" >&2; exit 1; }

# Folders of changed files. Test data belongs to the package above it. A folder that is gone still has importers.
files=$(git diff --name-only --no-renames "$BASE"; git ls-files --others --exclude-standard)
folders=$(while read -r file; do
	dir=$(dirname "$file")
	case $file in
	*.go) ;;
	*) until ls "$dir"/*.go >/dev/null 2>&1 || [ "$dir" = . ]; do dir=$(dirname "$dir"); done ;;
	esac
	echo "$dir"
done <<<"$files" | sort -u | grep -vE '^(\.|test/cluster.*|test/peers.*|manifests/release.*)$')

step "what changed since $(git log -1 --format='%h %s' "$BASE")"
imports=$(go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./...) || failed "go list"
touched=$(for dir in $folders; do echo "curfew.dev/curfew/$dir"; done)
if grep -qxE 'go\.(mod|sum)' <<<"$files"; then # a dependency may change any package
	touched=$(go list ./...)
fi
changed=$(awk -v touched="$(echo $touched)" 'BEGIN { n = split(touched, list); for (i = 1; i <= n; i++) is[list[i]] = 1 } $1 in is { print $1 }' <<<"$imports")
importers=$(awk -v touched="$(echo $touched)" 'BEGIN { n = split(touched, list); for (i = 1; i <= n; i++) is[list[i]] = 1 }
	!($1 in is) { for (i = 2; i <= NF; i++) if ($i in is) { print $1; next } }' <<<"$imports")
echo "$(wc -w <<<"$changed") packages changed, $(wc -w <<<"$importers") import them" >&2

step gofmt
unformatted=$(gofmt -l $(git ls-files --cached --others --exclude-standard '*.go' | while read -r file; do [ ! -e "$file" ] || echo "$file"; done))
[ -z "$unformatted" ] || failed "gofmt these: $unformatted"
if [ -n "$changed" ]; then
	step "go vet"
	GOGC=400 go vet $changed $importers || failed "go vet"
	step staticcheck
	GOGC=400 go run "$STATICCHECK" $changed $importers || failed staticcheck
fi
step "house rules: imports, purity, sizes, words"
GOGC=400 go test -vet=off ./test/house || failed "house rules"
for module in test/cluster manifests/release; do
	if test/changed.sh "$module"; then
		step "go vet of $module"
		GOGC=400 go -C "$module" vet ./... || failed "go vet of $module"
	fi
done
if test/changed.sh test/cluster; then
	GOGC=400 go -C test/cluster test -vet=off ./local ./cmd/... || failed test/cluster
fi

concurrent=$(go list $CONCURRENT)
left=
for package in $changed $importers; do
	case $package in */test/e2e*|*/test/house) continue ;; esac
	if [ $SECONDS -ge "$limit" ]; then
		left+=" ${package#curfew.dev/curfew/}"
		continue
	fi
	race=
	! grep -qxF "$package" <<<"$concurrent" || race=-race
	GOGC=400 go test -vet=off $race "$package" | grep -v 'no test files' || [ "${PIPESTATUS[0]}" = 0 ] || failed "${package#curfew.dev/curfew/}"
done
[ -z "$left" ] || echo "left out, for lack of time:$left (LIMIT=900 makes more time)" >&2
echo "left out, as always: end-to-end tests; see make help" >&2
[ $status = 0 ] && echo "passed after ${SECONDS}s" >&2
exit $status
