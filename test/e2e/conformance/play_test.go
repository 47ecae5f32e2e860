package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// kind is a resource of the test.
type kind struct {
	path, resource, apiVersion, kind string
	// content of a new object beside its metadata, and edit, which changes it.
	content func(random *rand.Rand) map[string]any
	edit    func(object map[string]any, n int64)
	// status changes the status; nil for kinds without the subresource.
	status func(object map[string]any, n int64)
	// loose: the real API server fills in more than package world does.
	loose bool
}

func at(object map[string]any, key string) map[string]any {
	inner, _ := object[key].(map[string]any)
	if inner == nil {
		inner = map[string]any{}
		object[key] = inner
	}
	return inner
}

var containers = []any{map[string]any{"name": "main", "image": "main"}}

var kinds = []*kind{
	{
		path: "/api/v1/namespaces/default/configmaps", resource: "configmaps", apiVersion: "v1", kind: "ConfigMap",
		content: func(*rand.Rand) map[string]any { return map[string]any{"data": map[string]any{"n": "0"}} },
		edit:    func(object map[string]any, n int64) { at(object, "data")["n"] = fmt.Sprint(n) },
	},
	{
		path: "/apis/coordination.k8s.io/v1/namespaces/default/leases", resource: "leases", apiVersion: "coordination.k8s.io/v1", kind: "Lease",
		content: func(*rand.Rand) map[string]any {
			return map[string]any{"spec": map[string]any{"holderIdentity": "a"}}
		},
		edit: func(object map[string]any, n int64) { at(object, "spec")["holderIdentity"] = fmt.Sprint("h", n) },
	},
	{
		path: "/apis/world.example.dev/v1/namespaces/default/runs", resource: "runs", apiVersion: "world.example.dev/v1", kind: "Run",
		content: func(*rand.Rand) map[string]any {
			return map[string]any{"spec": map[string]any{"n": int64(0)}, "status": map[string]any{"phase": "forged"}}
		},
		edit:   func(object map[string]any, n int64) { at(object, "spec")["n"] = n },
		status: func(object map[string]any, n int64) { at(object, "status")["phase"] = fmt.Sprint("p", n) },
	},
	{
		path: "/apis/batch/v1/namespaces/default/jobs", resource: "jobs", apiVersion: "batch/v1", kind: "Job", loose: true,
		content: func(*rand.Rand) map[string]any {
			pod := map[string]any{"restartPolicy": "Never", "containers": containers}
			return map[string]any{"spec": map[string]any{"suspend": true, "template": map[string]any{"spec": pod}}}
		},
		edit:   func(object map[string]any, n int64) { at(object, "spec")["ttlSecondsAfterFinished"] = n },
		status: func(object map[string]any, n int64) { at(object, "status")["failed"] = n },
	},
	{
		path: "/api/v1/namespaces/default/pods", resource: "pods", apiVersion: "v1", kind: "Pod", loose: true,
		content: func(random *rand.Rand) map[string]any {
			spec := map[string]any{"restartPolicy": "Never", "containers": containers, "schedulerName": "none", "automountServiceAccountToken": false}
			if random.IntN(2) == 0 {
				spec["nodeName"] = "elsewhere"
			}
			return map[string]any{"spec": spec}
		},
		edit: func(object map[string]any, n int64) {
			at(at(object, "metadata"), "annotations")["n"] = fmt.Sprint(n)
		},
		status: func(object map[string]any, n int64) {
			at(object, "status")["phase"] = []string{"Running", "Succeeded", "Failed"}[n%3]
		},
	},
}

// step is one request. Both sides make it from the objects that they know.
type step struct {
	verb string // create, get, list, update, patch, delete
	kind *kind
	name string
	n    int64
	// content of a new object.
	content map[string]any
	// version and uid are "", "current", "stale" or "wrong".
	version, uid string
	subresource  string
	// what an update or a patch changes: nothing, edit, label, unlabel, finalize, release, status, name.
	change string
	// finalizers and the owner of a new object.
	finalizers []string
	owner      string
	patch      string // the type of a patch: json, merge or strategic
	// of a DELETE.
	propagation string
	grace       int64 // -1: none
	orphan      bool
	dryRun      bool
	partial     bool
	bad         string // of a create: name, namespace, version
	limit       int
}

func (s *step) String() string {
	text := fmt.Sprintf("%s %s %s", s.verb, s.kind.resource, s.name)
	add := func(is bool, format string, args ...any) {
		if is {
			text += " " + fmt.Sprintf(format, args...)
		}
	}
	add(s.subresource != "", "/%s", s.subresource)
	add(s.change != "", "change=%s n=%d", s.change, s.n)
	add(s.patch != "", "patch=%s", s.patch)
	add(s.version != "", "version=%s", s.version)
	add(s.uid != "", "uid=%s", s.uid)
	add(len(s.finalizers) > 0, "finalizers=%s", strings.Join(s.finalizers, ","))
	add(s.owner != "", "owner=%s", s.owner)
	add(s.propagation != "", "propagation=%s", s.propagation)
	add(s.verb == "delete" && s.grace >= 0, "grace=%d", s.grace)
	add(s.orphan, "orphanDependents")
	add(s.dryRun, "dryRun")
	add(s.partial, "metadata only")
	add(s.bad != "", "bad=%s", s.bad)
	add(s.limit > 0, "limit=%d", s.limit)
	return text
}

// pick chooses one at random. An empty choice is as likely as all others together.
func pick(random *rand.Rand, all ...string) string {
	if random.IntN(2) == 0 {
		return ""
	}
	return all[random.IntN(len(all))]
}

// script is a random sequence of requests.
func script(seed uint64, length int) []*step {
	random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404
	var out []*step
	for n := range length {
		s := &step{kind: kinds[random.IntN(len(kinds))], name: []string{"a", "b"}[random.IntN(2)], n: int64(n), grace: -1}
		switch i := random.IntN(20); {
		case i < 6:
			s.create(random)
		case i < 8:
			s.verb, s.partial = "get", random.IntN(2) == 0
		case i < 9:
			s.verb, s.partial, s.limit = "list", random.IntN(2) == 0, random.IntN(3)
		case i < 12:
			s.verb, s.version, s.uid = "update", pick(random, "current", "stale"), pick(random, "current", "wrong")
			s.alter(random)
		case i < 15:
			s.verb, s.version, s.uid = "patch", pick(random, "current", "stale"), pick(random, "current", "wrong")
			s.patch = []string{"merge", "merge", "json", "strategic"}[random.IntN(4)]
			s.alter(random)
		default:
			s.remove(random)
		}
		out = append(out, s)
	}
	return out
}

func (s *step) create(random *rand.Rand) {
	s.verb, s.content = "create", s.kind.content(random)
	if random.IntN(3) == 0 {
		s.finalizers = [][]string{{"example.dev/keep"}, {"foregroundDeletion"}, {"orphan"}, {"example.dev/keep", "orphan"}, {"bad name"}}[random.IntN(5)]
	}
	if random.IntN(4) == 0 {
		s.owner = "a"
	}
	if random.IntN(8) == 0 {
		s.bad = []string{"name", "namespace", "version", "label"}[random.IntN(4)]
	}
	s.dryRun = random.IntN(10) == 0
}

func (s *step) alter(random *rand.Rand) {
	s.change = []string{"nothing", "edit", "edit", "label", "unlabel", "finalize", "release", "release", "status"}[random.IntN(9)]
	if s.kind.status != nil && random.IntN(2) == 0 {
		s.subresource = "status"
		if random.IntN(2) == 0 {
			s.change = "status"
		}
	}
	if s.subresource != "" && s.kind.resource == "runs" && suite.minor < 36 {
		s.withoutMetadata()
	}
	s.dryRun = random.IntN(10) == 0
}

// withoutMetadata has a write of the status send no other metadata than the object has. Up to
// Kubernetes 1.35, the managed fields of a custom object record such metadata, though the API server
// drops it: the resourceVersion rises. Package world has no managed fields.
func (s *step) withoutMetadata() {
	if slices.Contains([]string{"label", "unlabel", "finalize", "release"}, s.change) {
		s.change = "status"
	}
	if s.patch == "json" { // It writes an annotation.
		s.patch = "merge"
	}
}

func (s *step) remove(random *rand.Rand) {
	s.verb, s.version, s.uid = "delete", pick(random, "current", "stale"), pick(random, "current", "wrong")
	s.propagation = pick(random, "Background", "Foreground", "Orphan", "Wrong")
	s.orphan = random.IntN(12) == 0
	if random.IntN(3) == 0 {
		s.grace = []int64{0, 1, 60}[random.IntN(3)]
	}
	s.dryRun = random.IntN(8) == 0
}

// fixed is for what need not be random.
var fixed = rand.New(rand.NewPCG(0, 0)) // #nosec G404
