package main

// part is what runs at a time. None takes longer than [most].
type part struct {
	name, what string
	// script is for bash.
	script string
}

// e2e runs end-to-end tests that take long.
const e2e = "go test -vet=off -count=1 -timeout 85m -parallel 10 -v "

// ofRelease runs tests of what make release makes.
const ofRelease = "go -C manifests/release test -vet=off -count=1 -timeout 85m -p 1 -v "

// trainers are the versions that test/peers has a module for: older ones, then the newest.
const trainers = `$(ls -d test/peers/trainer-*/ | sed 's|.*/trainer-\(.*\)/|\1|') $(sed -n 's|^\tgithub.com/kubeflow/trainer/v2 \(v[^ ]*\).*|\1|p' test/peers/go.mod)`

// releases are the releases of Kubernetes that test/cluster pins.
var releases = []string{"1.32", "1.33", "1.34", "1.35", "1.36", "1.37"}

// suites are the packages of make test-e2e. Each is a part of its own on each release.
var suites = []part{
	{"core", "", e2e + `./test/e2e/core`},
	{"e2e", "", e2e + `-skip '^TestPeers' ./test/e2e`},
	{"peers", "", `PEERS=$(sed -n 's|^\tgithub.com/kubeflow/trainer/v2 \(v[^ ]*\).*|\1|p' test/peers/go.mod) ` + e2e + `-run '^TestPeers' ./test/e2e`},
	{"cli", "", e2e + `./test/e2e/cli`},
	{"serving", "", e2e + `./test/e2e/serving`},
	{"lifecycle", "", e2e + `./test/e2e/lifecycle`},
	{"conformance", "", e2e + `./test/e2e/conformance`},
	{"release", "", ofRelease + `. ./chart ./image ./e2e`},
}

// onReleases are the parts of all releases.
func onReleases() (out []part) {
	for _, release := range releases {
		for _, suite := range suites {
			out = append(out, part{"kubernetes-" + release + "-" + suite.name, "suite " + suite.name + " on Kubernetes " + release,
				"export KUBERNETES=" + release + "\n" + suite.script})
		}
	}
	return out
}

var parts = []part{
	{"in-tree", "the end-to-end tests beside the in-tree TTL controller", `IN_TREE_TTL=1 ` + e2e + `-skip '^TestPeers' ./test/e2e`},
	{"install", "the end-to-end tests on a control plane that `dist/install.yaml` alone has set up", `go -C manifests/release run . -version v0.0.0-test install
INSTALL=dist/install.yaml ` + e2e + `-skip '^TestPeers' ./test/e2e`},
	{"hostile", "hostile requests of the largest sizes, and what they cost", `HOSTILE=full ` + e2e + `-run '^TestHostile' ./test/e2e`},
	{"serving", "rotations, restarts and hand-overs under load, with 10,000 objects", `FULL=1 ` + e2e + `./test/e2e/serving`},
	{"lifecycle", "an upgrade from the previous version, and back; API servers whose watches stand still", `FULL=1 ` + e2e + `./test/e2e/lifecycle`},
	{"waits", "runs of a cleanup policy minutes apart, and an idle watch", `FULL=1 ` + e2e + `-run '^Test(CleanupConsecutiveRuns|CleanupMinUnused|TriggerOfAnotherPackage)$' ./test/e2e`},
	{"pods", "a Job of 10,000 Pods", `PODS=full ` + e2e + `-run '^TestJobOfManyCompletions' ./test/e2e`},
	{"tally", "100 PodTallies, as many as a namespace may have, of 100,000 Pods, and a hundred kills", e2e + `-run '^TestTallyIsKilled' ./test/e2e -args -tally-pods 100000 -tally-tallies 100 -tally-kills 100`},
	{"peers", "deadlines and TTLs beside the controllers of JobSet and of each Trainer", `for version in ` + trainers + `; do FULL=1 PEERS=$version ` + e2e + `-run '^TestPeers' ./test/e2e; done`},
	{"soak", "20,000 objects expire while all is killed, cut, denied and changed", `go run ./test/soak ${SOAK-}`},
	{"attack", "20,000 objects expire beside three tenants with 2,000 cleanup policies and forged reports each, and without them: both are about as late", `go run ./test/soak -attackers 2000 ${SOAK-}`},
	{"safety", "10,000 histories of the engine", `go test -count=1 -timeout 85m -run TestSafety ./controller/expire -rapid.checks=10000`},
	{"world", "3,000 histories of the whole controller in a cluster in memory, and 1,000 sequences of requests that this cluster and a real API server answer alike", `go test -count=1 -timeout 85m -run '^TestWorld$' ./cmd/curfew -seeds 3000
` + e2e + `./test/e2e/conformance -seeds 1000`},
	{"crash", "cleanup runs killed at each two requests, also after others wrote their status or reports", `CRASH=full go test -count=1 -timeout 85m -run '^Test(Killed|Forged)' ./controller/cleanup`},
	{"race", "all unit tests with the race detector", `go test -race -count=1 -timeout 85m -p 2 $(go list ./... | grep -v /test/e2e)`},
	{"reproducible", "`make release` twice, in different folders: the same checksums", `FULL=1 ` + ofRelease + `-run TestBuiltTwice .`},
	{"offline", "the source archive builds without a module proxy, and makes a release", `FULL=1 ` + ofRelease + `-run TestSourceArchive .`},
	{"vulncheck", "known vulnerabilities that Curfew's code reaches; fails where their database cannot be read", `make vulncheck REQUIRED=1`},
	{"mutation", "each safety invariant broken on purpose: a test must fail", `go run ./test/mutation`},
}
