package main

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file is a second opinion on what Curfew promises, written from its documentation for what
// the soak makes, and for no more. It shares no code with Curfew, so that one mistake is not made
// twice.

const prefix = "curfew.dev/"

// state is an object at one revision.
type state struct {
	revision int64
	seen     time.Time

	kind, namespace, name, uid string
	created                    time.Time
	deleting                   bool
	annotations                map[string]string
	finalizers                 []string
	jobPod                     bool // a Job controls it

	custom *batch // of the soak's own kind: what the KindProfile says of it decides what follows

	nativeTTL *int64
	finished  bool
	failed    bool
	finish    time.Time // zero: the object does not say
	always    bool      // restartPolicy Always
}

// surroundings are what a namespace and the policy that speaks of it say at one revision.
type surroundings struct {
	revision    int64
	seen        time.Time
	labels      map[string]string
	annotations map[string]string
	// lifted is when dry-run ended last; zero: there was none.
	lifted time.Time
}

func (n *surroundings) dryRun() bool { return n != nil && n.annotations[prefix+"mode"] == "dry-run" }

// meaning is what a KindProfile says of the soak's own kind.
type meaning struct{ finished, finishTime, ttl string }

// correction is one revision of the KindProfile.
type correction struct {
	meaning
	revision int64
	seen     time.Time
}

// rule is the one LifecyclePolicy that the soak makes.
type rule struct {
	revision int64
	seen     time.Time
	label    string // of the namespaces that it speaks of, as key=value
	ttl      time.Duration
	since    time.Time // zero: its defaults do not hold yet
}

// circumstances are what decides beside the object; each may be nil.
type circumstances struct {
	namespace *surroundings
	policy    *rule
	profile   *correction
}

// due is what the model says of a state: the instant of its expiry, or why it has none.
type due struct {
	at    time.Time
	never string // why; empty where at counts
	live  bool   // it hangs on something beside the object
}

func keep(why string) due { return due{never: why} }

// judge says what a state comes to.
func judge(s *state, around circumstances) due {
	s = s.under(around.profile)
	if around.namespace.dryRun() {
		return keep("its namespace is in dry-run")
	}
	if value, ok := s.annotations[prefix+"protect"]; ok && value != "false" {
		return keep("is protected")
	}
	if !s.finished {
		return keep("is not finished")
	}
	if s.always {
		return keep("has restartPolicy Always")
	}
	if slices.Contains(s.finalizers, "batch.kubernetes.io/job-tracking") {
		return keep("its Job has not accounted for it")
	}
	ttl, answer := s.ttl(around.namespace, around.policy)
	if answer.never != "" {
		return answer
	}
	if s.finish.IsZero() {
		return keep("does not say when it finished")
	}
	// Nothing finishes before it exists.
	answer.at = s.finish.Add(ttl)
	if s.created.After(s.finish) {
		answer.at = s.created.Add(ttl)
	}
	return answer
}

// under is the state as the KindProfile has it read. Built-in kinds mean what they mean.
func (s *state) under(profile *correction) *state {
	if s.custom == nil {
		return s
	}
	says := meanings[0]
	if profile != nil {
		says = profile.meaning
	}
	out := *s
	status := &s.custom.Status
	out.failed = status.Outcome == "Failed"
	out.finished = status.Outcome != "" && !(out.failed && says.finished == meanings[2].finished)
	at := status.FinishedAt
	if says.finishTime == meanings[1].finishTime {
		at = status.VerifiedAt
	}
	if at != nil {
		out.finish = at.Time
	}
	if out.nativeTTL = s.custom.Spec.TTLSeconds; says.ttl == meanings[1].ttl {
		out.nativeTTL = s.custom.Spec.KeepSeconds
	}
	return &out
}

// ttl follows the precedence: what the object says for its outcome, else for both, else its
// namespace, else the policy.
func (s *state) ttl(around *surroundings, policy *rule) (time.Duration, due) {
	outcome := prefix + "ttl-after-succeeded"
	other := prefix + "ttl-after-failed"
	if s.failed {
		outcome, other = other, outcome
	}
	for _, key := range []string{outcome, prefix + "ttl-after-finished"} {
		if text, ok := s.annotations[key]; ok {
			return read(text)
		}
	}
	if s.nativeTTL != nil {
		return time.Duration(*s.nativeTTL) * time.Second, due{}
	}
	if _, ok := s.annotations[other]; ok {
		return 0, keep("speaks of the other outcome only")
	}
	if _, ok := s.annotations[prefix+"ttl-source"]; ok {
		return 0, keep("had its default taken away")
	}
	if around != nil {
		if text, ok := around.speaksOf(s); ok {
			since, _, _ := strings.Cut(around.annotations[prefix+"default-since"], "/")
			at, err := time.Parse(time.RFC3339, since)
			if err != nil || !s.created.After(at) {
				return 0, keep("is older than its namespace's default")
			}
			ttl, answer := read(text)
			answer.live = true
			return ttl, answer
		}
	}
	if policy != nil && around != nil && !s.jobPod {
		key, value, _ := strings.Cut(policy.label, "=")
		if around.labels[key] == value && !policy.since.IsZero() && s.created.After(policy.since) {
			return policy.ttl, due{live: true}
		}
	}
	return 0, keep("has no TTL")
}

// speaksOf is what a namespace says for one object, if anything.
func (n *surroundings) speaksOf(s *state) (string, bool) {
	if s.kind == pods {
		if text, ok := n.annotations[prefix+"default-pod-ttl"]; ok || s.jobPod {
			return text, ok
		}
	}
	text, ok := n.annotations[prefix+"default-ttl"]
	return text, ok
}

// read reads a duration as the soak or Curfew's defaulting writes it. What it cannot read keeps.
func read(text string) (time.Duration, due) {
	if text == "never" {
		return 0, keep("says never")
	}
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, due{}
	}
	var days time.Duration
	if head, tail, ok := strings.Cut(text, "d"); ok {
		count, err := strconv.ParseInt(head, 10, 16)
		if err != nil {
			return 0, keep("has an unreadable TTL")
		}
		days, text = time.Duration(count)*24*time.Hour, tail
		if text == "" {
			return days, due{}
		}
	}
	rest, err := time.ParseDuration(text)
	if err != nil || rest < 0 {
		return 0, keep("has an unreadable TTL")
	}
	return days + rest, due{}
}
