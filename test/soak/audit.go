package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"curfew.dev/curfew/policy/v1alpha1"
)

// audit is what the API server's log tells of Curfew's requests. The API server writes it before it
// goes on, so that a kill costs it the request under way at most.
type audit struct {
	requests map[string]int // by verb and resource
	codes    map[int]int    // of DELETEs
	accepted []accepted
	forbade  []forbidden
	torn     int // lines that a kill cut short
}

// accepted is one of Curfew's DELETEs that the API server carried out.
type accepted struct {
	resource, name, uid, version string
	received                     time.Time
}

// forbidden is a request that RBAC did not allow.
type forbidden struct {
	at   time.Time
	what string
}

const controllerAccount = "system:serviceaccount:curfew-system:curfew-controller"

func readAudit(path string) (*audit, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	out := &audit{requests: map[string]int{}, codes: map[int]int{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var event struct {
			Verb           string
			RequestURI     string
			Received       time.Time `json:"requestReceivedTimestamp"`
			User           struct{ Username string }
			Impersonated   *struct{} `json:"impersonatedUser"`
			ObjectRef      struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus struct{ Code int }
			RequestObject  struct {
				Preconditions struct{ UID, ResourceVersion string }
				DryRun        []string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			out.torn++
			continue
		}
		// What it does as the account of a cleanup policy the ledger judges: no such account may delete
		// anything of the fleet.
		if event.User.Username != controllerAccount || event.Impersonated != nil {
			continue
		}
		if event.ResponseStatus.Code == http.StatusForbidden {
			out.forbade = append(out.forbade, forbidden{event.Received, event.Verb + " " + event.RequestURI})
		}
		out.requests[event.Verb+" "+event.ObjectRef.Resource]++
		if event.Verb != "delete" || len(event.RequestObject.DryRun) > 0 || event.ObjectRef.Resource == v1alpha1.CleanupReports {
			continue
		}
		code := event.ResponseStatus.Code
		out.codes[code]++
		if code >= 200 && code < 300 {
			out.accepted = append(out.accepted, accepted{
				resource: event.ObjectRef.Resource, name: event.ObjectRef.Namespace + "/" + event.ObjectRef.Name,
				uid: event.RequestObject.Preconditions.UID, version: event.RequestObject.Preconditions.ResourceVersion,
				received: event.Received,
			})
		}
	}
	return out, lines.Err()
}

// refused are the requests that were refused because Curfew lacks a permission. An API server that
// has just started, or has lost etcd, refuses requests until it has read the permissions.
func (a *audit) refused(disrupted []disruption) (list []string) {
	for _, one := range a.forbade {
		if !disturbed(disrupted, one.at.Add(-10*time.Second), one.at) {
			list = append(list, one.what)
		}
	}
	return list
}

// check compares what Curfew's DELETEs named with what they deleted: the UID and the very state
// (S1, S2).
func (a *audit) check(l *ledger) (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range a.accepted {
		what := fmt.Sprintf("DELETE of %s %s", one.resource, one.name)
		known := l.lives[one.uid]
		switch {
		case one.uid == "" || one.version == "":
			wrong = append(wrong, fmt.Sprintf("%s names UID %q and resourceVersion %q", what, one.uid, one.version))
		case known == nil || known.deletion == nil:
			wrong = append(wrong, fmt.Sprintf("%s was accepted for UID %s, which was not deleted", what, one.uid))
		case strconv.FormatInt(known.deletion.of.revision, 10) != one.version:
			wrong = append(wrong, fmt.Sprintf("%s names resourceVersion %s, deleted was %d", what, one.version, known.deletion.of.revision))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// received is when the API server received each DELETE that it carried out, by the UID that it
// named.
func (a *audit) received() map[string]time.Time {
	out := map[string]time.Time{}
	for _, one := range a.accepted {
		out[one.uid] = one.received
	}
	return out
}
