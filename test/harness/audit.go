package harness

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Forbidden are the requests of Curfew's ServiceAccounts that RBAC refused, one line each, off the
// API server's audit log.
func (c *Cluster) Forbidden() ([]string, error) {
	var found []string
	err := c.eachAudited(func(event *auditEvent) {
		own := strings.HasPrefix(event.User.Username, "system:serviceaccount:"+Namespace+":")
		if tenant := event.ImpersonatedUser.Username; tenant != "" && !strings.HasPrefix(tenant, "system:serviceaccount:"+Namespace+":") {
			own = false // What a tenant's account may not do is for the tenant to grant.
		}
		refused := event.Annotations["authorization.k8s.io/decision"] == "forbid" // Else admission did, such as in a Namespace that is deleted.
		if event.ResponseStatus.Code == http.StatusForbidden && refused && own {
			found = append(found, event.User.Username+" "+event.Verb+" "+event.RequestURI)
		}
	})
	return found, err
}

// thief is the user agent of requests with a stolen token, which are not Curfew's own.
const thief = "curfew-e2e-thief"

// StealToken is a client configuration with a token of one of Curfew's ServiceAccounts. Its
// requests count neither as forbidden nor as a use of a permission.
func (c *Cluster) StealToken(ctx context.Context, account string) (*rest.Config, error) {
	token, err := c.mustKubectl(ctx, "", "create", "token", account, "--namespace", Namespace)
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken, config.UserAgent, config.QPS = strings.TrimSpace(token), thief, -1
	return config, nil
}

// Audited are the annotations that the audit log has of the requests that created objects of a
// namespace, by the name of the object: of the last one where there were several.
func (c *Cluster) Audited(namespace string) (map[string]map[string]string, error) {
	found := map[string]map[string]string{}
	err := c.eachAudited(func(event *auditEvent) {
		if event.Verb == "create" && event.ObjectRef.Namespace == namespace {
			found[event.ObjectRef.Name] = event.Annotations
		}
	})
	return found, err
}

// DeletedBy is the user whose DELETE of an object came first of those that the API server accepted;
// "" while the audit log has none. A kubelet sends another one for a Pod, and may get its answer
// sooner.
func (c *Cluster) DeletedBy(resource, namespace, name string) (user string, err error) {
	var first time.Time
	err = c.eachAudited(func(event *auditEvent) {
		row := event.ObjectRef
		if event.Verb == "delete" && event.ResponseStatus.Code == http.StatusOK && row.Resource == resource && row.Namespace == namespace && row.Name == name && (user == "" || event.RequestReceivedTimestamp.Before(first)) {
			user, first = event.User.Username, event.RequestReceivedTimestamp
		}
	})
	return user, err
}

// auditEvent has the fields that are read from a line of the audit log.
type auditEvent struct {
	Verb, RequestURI string
	UserAgent        string
	User             struct{ Username string }
	ImpersonatedUser struct{ Username string }
	ObjectRef        struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus   struct{ Code int }
	Annotations      map[string]string

	RequestReceivedTimestamp time.Time
}

func (c *Cluster) eachAudited(tell func(*auditEvent)) error {
	file, err := os.Open(filepath.Join(c.Dir, "logs", "audit.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no audit log: start the cluster with one")
	}
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	for lines := bufio.NewReaderSize(file, 1<<16); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // The API server is writing the last line.
		}
		var event auditEvent
		if err := cmp.Or(err, json.Unmarshal(line, &event)); err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		if event.UserAgent != thief {
			tell(&event)
		}
	}
}

// DeletesOf are the DELETEs of a user in a namespace, with when the API server received each.
func (c *Cluster) DeletesOf(user, namespace string) ([]Delete, error) {
	var found []Delete
	err := c.eachAudited(func(event *auditEvent) {
		if row := event.ObjectRef; event.Verb == "delete" && event.User.Username == user && row.Namespace == namespace {
			found = append(found, Delete{At: event.RequestReceivedTimestamp, Resource: row.Resource, Namespace: row.Namespace, Name: row.Name, Status: event.ResponseStatus.Code})
		}
	})
	return found, err
}
