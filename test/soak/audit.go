package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/v1alpha1"
)

// audit is what the API server's log shows of Curfew's requests. The API server writes it before it
// goes on, so that a kill costs it the request under way at most.
type audit struct {
	accepted map[types.UID][]accepted // by the UID that they named
	forbade  []forbidden
}

// accepted is one of Curfew's DELETEs that the API server carried out.
type accepted struct {
	name     string
	wanted   metav1.Preconditions
	received time.Time
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
	out := &audit{accepted: map[types.UID][]accepted{}}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var event struct {
			Verb           string
			RequestURI     string
			Received       time.Time `json:"requestReceivedTimestamp"`
			User           struct{ Username string }
			Impersonated   *struct{} `json:"impersonatedUser"`
			ObjectRef      struct{ Resource, Namespace, Name string }
			ResponseStatus struct{ Code int }
			RequestObject  struct {
				Preconditions metav1.Preconditions
				DryRun        []string
			}
		}
		// A kill cuts a line short. What Curfew does as the account of a cleanup policy the ledger
		// judges: no such account may delete anything of the fleet.
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.User.Username != controllerAccount || event.Impersonated != nil {
			continue
		}
		code, row := event.ResponseStatus.Code, event.ObjectRef
		if code == http.StatusForbidden {
			out.forbade = append(out.forbade, forbidden{event.Received, event.Verb + " " + event.RequestURI})
		}
		if event.Verb != "delete" || len(event.RequestObject.DryRun) > 0 || row.Resource == v1alpha1.CleanupReports || code < 200 || code >= 300 {
			continue
		}
		a := accepted{row.Resource + " " + row.Namespace + "/" + row.Name, event.RequestObject.Preconditions, event.Received}
		uid := types.UID("")
		if a.wanted.UID != nil {
			uid = *a.wanted.UID
		}
		out.accepted[uid] = append(out.accepted[uid], a)
	}
	return out, lines.Err()
}

// refused are the requests that were refused because Curfew lacks a permission. An API server that
// has just started, or has lost etcd, refuses requests until it has read the permissions.
func (a *audit) refused(disrupted []disruption) (list []string) {
	for _, forbidden := range a.forbade {
		late := func(d disruption) bool {
			return d.from.Before(forbidden.at) && d.to.After(forbidden.at.Add(-10*time.Second))
		}
		if !slices.ContainsFunc(disrupted, late) {
			list = append(list, forbidden.what)
		}
	}
	return list
}
