package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Forbidden are the requests of Curfew's ServiceAccounts that RBAC refused, one line each, off the API server's audit log.
func (c *Cluster) Forbidden() ([]string, error) {
	file, err := os.Open(filepath.Join(c.Dir, "logs", "audit.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no audit log: start the cluster with one")
	}
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	defer file.Close()
	var found []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ResponseStatus   struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("parse the audit log: %w", err)
		}
		if event.ResponseStatus.Code == http.StatusForbidden && strings.HasPrefix(event.User.Username, "system:serviceaccount:"+Namespace+":") {
			found = append(found, event.User.Username+" "+event.Verb+" "+event.RequestURI)
		}
	}
	return found, lines.Err()
}
