package main

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/test/world"
)

func (s *simulation) changeRules(e event) {
	switch e.what {
	case "namespace":
		key, value, _ := strings.Cut(e.value, "=")
		s.Edit("user", "namespaces", "", e.namespace, "", func(live *unstructured.Unstructured) {
			live.SetAnnotations(with(live.GetAnnotations(), "curfew.dev/"+key, value))
		})
	case "policy":
		_ = s.Remove("user", "lifecyclepolicies.curfew.dev", "", "jobs", metav1.DeleteOptions{})
		switch e.value {
		case "":
		case "DryRun":
			s.add("lifecyclepolicies.curfew.dev", "{metadata: {name: jobs}, spec: {mode: DryRun, match: {kinds: [{group: batch, kind: Job}]}, defaults: {ttl: {value: 20s}}}}")
		default:
			s.add("lifecyclepolicies.curfew.dev", "{metadata: {name: jobs}, spec: {match: {kinds: [{group: batch, kind: Job}]}, defaults: {ttl: {value: %s}}}}", e.value)
		}
	case "pause":
		triggers := ""
		if e.value != "" {
			triggers = "triggers: [" + e.value + "], "
		}
		s.add("deletionpauses.curfew.dev", "{metadata: {name: %s}, spec: {%sreason: a test}}", e.name, triggers)
	case "resume":
		for _, pause := range s.Objects("deletionpauses.curfew.dev") {
			_ = s.Remove("user", "deletionpauses.curfew.dev", "", pause.GetName(), metav1.DeleteOptions{})
		}
	}
}

// disturb disturbs the network, the API server, or Curfew.
func (s *simulation) disturb(e event) {
	until := time.Now().Add(time.Duration(1+e.n) * time.Second)
	i := int(e.n) % len(s.replicas)
	switch e.what {
	case "freeze":
		s.Freeze(e.value)
		time.AfterFunc(time.Until(until), func() { s.Thaw(e.value) })
	case "disconnect":
		s.Disconnect(e.value)
	case "compact":
		s.Compact()
	case "skew": // The clocks differ from the beginning.
	case "trouble":
		s.locked(func() { s.trouble = until })
	case "race":
		s.locked(func() { s.race = true })
	case "kill", "stop":
		s.locked(func() {
			worldProcess := s.replicas[i]
			if worldProcess == nil {
				return
			}
			s.down[i] = until
			if e.what == "kill" {
				worldProcess.client.Kill()
			}
			s.end(worldProcess)
		})
	case "cut":
		s.locked(func() {
			worldProcess := s.replicas[i]
			if worldProcess == nil {
				return
			}
			s.cut[worldProcess.name] = until
			worldProcess.client.Mute(true)
			time.AfterFunc(time.Until(until), func() { worldProcess.client.Mute(false) })
		})
	}
}

// end ends a process once its watches are silent: controller-runtime's informers of metadata leave a
// goroutine behind that holds an event while they end (watch.Filter).
func (s *simulation) end(process *worldProcess) {
	process.client.Mute(true)
	time.AfterFunc(10*time.Millisecond, process.stop)
}

func (s *simulation) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// touch edits the object of a request that is about to be carried out.
func (s *simulation) touch(r *world.Request) {
	resource := strings.TrimSuffix(r.Resource.Resource+"."+r.Resource.Group, ".")
	s.Edit("user", resource, r.Namespace, r.Name, "", func(live *unstructured.Unstructured) {
		live.SetAnnotations(with(live.GetAnnotations(), "touched", s.Now().String()))
	})
}

// calm ends all trouble, so that the history comes to rest.
func (s *simulation) calm() {
	s.locked(func() {
		s.trouble, s.race, s.cut = time.Time{}, false, map[string]time.Time{}
		for i, replica := range s.replicas {
			s.down[i] = time.Time{}
			if replica != nil {
				replica.client.Mute(false)
			}
		}
	})
	for _, kind := range kindsOfEvents {
		if kind.what == "freeze" {
			for _, resource := range kind.values {
				s.Thaw(resource)
			}
		}
	}
	s.changeRules(event{what: "resume"})
}
