# To source: sets BASE, the commit that a change is compared with, unless it is set. It is where the branch left main. On main itself it
# is the newest commit that is a day older than the last one, so that what came in several steps is tested as a whole. BASE stays empty
# where nothing is known, such as in a shallow clone.
if [ -z "${BASE:-}" ]; then
	for main in origin/main main; do
		BASE=$(git merge-base HEAD "$main" 2>/dev/null) && break
	done
	if [ "$BASE" = "$(git rev-parse HEAD)" ]; then
		BASE=$(git rev-list -1 --first-parent --before="$(($(git log -1 --format=%ct) - 86400))" HEAD)
	fi
fi
