package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/test/builders"
)

// profiled is what a Profiles sees and does in these tests.
type profiled struct {
	profiles, definitions, runtimes *builders.Source
	feeds                           *Set
	platform                        *follow.Platform

	mu       sync.Mutex
	missing  map[string][]string // by resource
	broken   map[string]bool     // feeds that cannot be made
	asked    int
	started  []string
	running  map[string]*stream
	forgot   []string
	parallel bool
	lingers  time.Duration // how long feeds take to end
	// making and made are called before and after a feed is made, and log gets what happens to
	// kinds; all may be nil.
	making func()
	made   func(profile string)
	log    func(line string)
	// lacks answers for permissions other than those to watch and delete.
	lacks   func(needs []permission.Need) []permission.Need
	handles []string // resources, by the engine's handles
	// unwatched are resources that no trigger judges.
	unwatched []string
}

// Watched reports whether a trigger judges the kind.
func (c *profiled) Watched(spec *Spec) bool {
	return !slices.Contains(c.unwatched, spec.Resource.Resource)
}

// Hold and ForgetKind do what the engine does.
func (c *profiled) Hold(kind expire.Kind, on bool) {
	if c.log != nil {
		c.log(map[bool]string{true: "hold ", false: "release "}[on] + c.resourceOf(kind))
	}
}

func (c *profiled) ForgetKind(kind expire.Kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgot = append(c.forgot, c.handles[kind])
}

func (c *profiled) resourceOf(kind expire.Kind) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.handles[kind]
}

// register returns the handle of a resource: the same one for each feed.
func (c *profiled) register(resource string) expire.Kind {
	if !slices.Contains(c.handles, resource) {
		c.handles = append(c.handles, resource)
	}
	return expire.Kind(slices.Index(c.handles, resource))
}

// Lacks answers as the API server does.
func (c *profiled) Lacks(_ context.Context, _ string, needs []permission.Need) ([]permission.Need, error) {
	if needs[0].Verb == "patch" {
		if c.lacks == nil {
			return nil, nil
		}
		return c.lacks(needs), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	var out []permission.Need
	for _, need := range needs {
		if slices.Contains(c.missing[need.Resource.Resource], need.Verb) {
			out = append(out, need)
		}
	}
	return out, nil
}

// Make makes feeds.
func (c *profiled) Make(spec *Spec) (made Feed, err error) {
	if spec.Profile == nil {
		return other{c, spec.Kind.Kind}, nil
	}
	if c.making != nil {
		c.making()
	}
	c.mu.Lock()
	name := spec.Resource.Resource
	defer func() {
		c.mu.Unlock()
		if err == nil && c.made != nil {
			c.made(spec.Profile.Name)
		}
	}()
	if c.broken[name] {
		return nil, errors.New("broken")
	}
	c.started = append(c.started, name)
	return &stream{cluster: c, profile: spec.Profile, handle: c.register(name)}, nil
}

// other is a feed of a kind without a profile, which reports that it judges all of it again.
type other struct {
	cluster *profiled
	kind    string
}

func (o other) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (o other) RejudgeNamespace(string)       {}
func (o other) Handles() []expire.Kind        { return nil }

func (o other) RejudgeAll() {
	if o.cluster.log != nil {
		o.cluster.log("changed " + o.kind)
	}
}

type stream struct {
	cluster *profiled
	profile *expression.Profile
	handle  expire.Kind
	judged  []string
}

func (s *stream) Run(ctx context.Context) error {
	name := s.profile.Resource
	s.cluster.mu.Lock()
	s.cluster.parallel = s.cluster.parallel || s.cluster.running[name] != nil
	s.cluster.running[name] = s
	s.cluster.mu.Unlock()
	<-ctx.Done()
	<-time.After(s.cluster.lingers)
	s.cluster.mu.Lock()
	delete(s.cluster.running, name)
	s.cluster.mu.Unlock()
	return nil
}

func (s *stream) RejudgeNamespace(name string) { s.note(name) }
func (s *stream) RejudgeAll()                  { s.note("*") }
func (s *stream) Handles() []expire.Kind       { return []expire.Kind{s.handle} }

func (s *stream) note(what string) {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	s.judged = append(s.judged, what)
}

func (c *profiled) feed(resource string) *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[resource]
}
