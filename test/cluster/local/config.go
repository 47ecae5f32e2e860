package local

import (
	"crypto/rand"
	"embed"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

//go:embed stages/*.yaml
var files embed.FS

//go:embed audit.yaml
var auditPolicy []byte

const (
	// AdminUser is the user behind the kubeconfig and the token that a cluster hands out.
	AdminUser = "curfew-local-admin"
	// NodeName is the name of the one Node.
	NodeName = "node-0"

	mastersGroup = "system:masters"
)

// identities are those who talk to the API server, by the name of their kubeconfig in <dir>/config.
// The controller manager and the scheduler have no more rights than in a real cluster, so that
// permissions of Curfew that only hold for administrators do not go unnoticed in tests.
var identities = []struct{ name, user, group string }{
	{"admin", AdminUser, mastersGroup},
	{"kube-controller-manager", "system:kube-controller-manager", ""},
	{"kube-scheduler", "system:kube-scheduler", ""},
	{"kwok", "curfew-local-kwok", mastersGroup},
}

// prepare writes everything that the components read at their start: keys, certificates, tokens,
// kubeconfigs, stages. It sets the state's paths and its token.
func prepare(s *State, now time.Time) error {
	pki, config := filepath.Join(s.Dir, "pki"), filepath.Join(s.Dir, "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", config, err)
	}
	ca, err := newAuthority(pki, now)
	if err != nil {
		return err
	}
	if err := ca.server("server", now); err != nil {
		return err
	}
	// With its own client certificate the API server asks aggregated API servers in the name of its
	// users.
	if err := ca.client("front-proxy", "front-proxy-client", now); err != nil {
		return err
	}
	if err := serviceAccountKeys(pki); err != nil {
		return err
	}

	s.Kubeconfig = filepath.Join(s.Dir, "kubeconfig")
	s.CAFile = filepath.Join(pki, "ca.crt")
	authority, err := os.ReadFile(s.CAFile)
	if err != nil {
		return fmt.Errorf("read the authority back: %w", err)
	}

	var tokens strings.Builder
	for _, who := range identities {
		token := rand.Text()
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", token, who.user, who.user, who.group)
		path := filepath.Join(config, who.name+".kubeconfig")
		if who.name == "admin" {
			path, s.Token = s.Kubeconfig, token
		}
		if err := os.WriteFile(path, []byte(kubeconfig(s.Server, authority, who.user, token)), 0o600); err != nil {
			return fmt.Errorf("write the kubeconfig of %s: %w", who.name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(config, "tokens.csv"), []byte(tokens.String()), 0o600); err != nil {
		return fmt.Errorf("write the token file: %w", err)
	}
	if err := os.WriteFile(filepath.Join(config, "audit.yaml"), auditPolicy, 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	return writeStages(filepath.Join(config, "kwok.yaml"))
}

// writeStages joins kwok's options and the stages into the one file that it reads.
func writeStages(path string) error {
	var document []byte
	for _, name := range []string{"options", "node", "pod"} {
		stage, err := files.ReadFile("stages/" + name + ".yaml")
		if err != nil {
			return fmt.Errorf("read the built-in %s: %w", name, err)
		}
		document = append(append(document, "---\n"...), stage...)
	}
	if err := os.WriteFile(path, document, 0o600); err != nil {
		return fmt.Errorf("write kwok's configuration: %w", err)
	}
	return nil
}

// kubeconfig returns a kubeconfig that carries all it needs, so that it may be copied.
func kubeconfig(server string, authority []byte, user, token string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: curfew-local
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    token: %s
contexts:
- name: curfew-local
  context:
    cluster: curfew-local
    user: %s
current-context: curfew-local
`, server, base64.StdEncoding.EncodeToString(authority), user, token, user)
}

// node is the one Node, large enough for whatever a test schedules. kwok makes it ready.
const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + NodeName + `",
"labels":{"kubernetes.io/hostname":"` + NodeName + `","kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","type":"kwok"},
"annotations":{"kwok.x-k8s.io/node":"fake"}}}`
