package harness

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
	k8syaml "sigs.k8s.io/yaml"
)

// PeerOptions say how the controllers of a peer are to run.
type PeerOptions struct {
	// Proxy stands between them and the API server; nil means none.
	Proxy *Proxy
	// Out is told how far a first, long build is.
	Out io.Writer
}

// peersNamespace holds the ServiceAccounts of the peers.
const peersNamespace = "peers"

// peerAccess is what a peer runs with. Its own roles are its own affair; it may do all.
const peerAccess = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + peersNamespace + `}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: NAME, namespace: ` + peersNamespace + `}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: peer-NAME}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: NAME, namespace: ` + peersNamespace + `}]
`

// peerConfigurations are what the peers are told in a file: certificates are ours, no lease, no
// metrics, and requests without a limit that matters.
var peerConfigurations = map[string]string{
	JobSet.name: `
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
webhook: {host: 127.0.0.1, port: WEBHOOK, certDir: CERTS}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: HEALTH}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
clientConnection: {qps: 500, burst: 500}
`,
	Trainer.name: `
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
webhook: {host: 127.0.0.1, port: WEBHOOK}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: HEALTH}
certManagement: {enable: false}
clientConnection: {qps: 500, burst: 500}
`,
}

// StartPeer builds and starts the controllers of a peer, with its webhooks, as its own manifests
// have them, and returns when they say that they are ready. Its CRDs have to be installed. One that
// has ended may be started again.
func (c *Cluster) StartPeer(ctx context.Context, peer Peer, options PeerOptions) (*Curfew, error) {
	if options.Out == nil {
		options.Out = io.Discard
	}
	program, err := peer.Build(ctx, options.Out)
	if err != nil {
		return nil, err
	}
	if _, err := c.mustKubectl(ctx, strings.ReplaceAll(peerAccess, "NAME", peer.name), "apply", "-f", "-"); err != nil {
		return nil, err
	}
	server, authority := "", []byte(nil)
	if options.Proxy != nil {
		server, authority = options.Proxy.URL(), options.Proxy.Authority()
	}
	kubeconfig, err := c.accountKubeconfig(ctx, "peer-"+peer.name, peersNamespace, peer.name, server, authority)
	if err != nil {
		return nil, err
	}
	var addresses [2]int
	for i := range addresses {
		if addresses[i], err = FreePort(); err != nil {
			return nil, err
		}
	}
	health := fmt.Sprintf("127.0.0.1:%d", addresses[0])
	// By default controller-runtime looks for certificates below the folder for temporary files.
	temporary := filepath.Join(c.Dir, "peers", peer.name)
	certificates := filepath.Join(temporary, "k8s-webhook-server", "serving-certs")
	bundle, err := selfSigned(certificates)
	if err != nil {
		return nil, err
	}
	if err := c.installPeerWebhooks(ctx, peer, addresses[1], bundle); err != nil {
		return nil, err
	}
	configuration := filepath.Join(temporary, "config.yaml")
	text := strings.NewReplacer("WEBHOOK", fmt.Sprint(addresses[1]), "CERTS", certificates, "HEALTH", health).Replace(peerConfigurations[peer.name])
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", peer.name, err)
	}
	started := &Curfew{WebhookPort: addresses[1], Health: health, Kubeconfig: kubeconfig}
	started.Process, err = startProcess(peer.name, c.Log(peer.name), false, []string{"KUBECONFIG=" + kubeconfig, "TMPDIR=" + temporary}, program, "--config", configuration)
	if err != nil {
		return nil, err
	}
	if err := started.WaitReady(ctx); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, Tail(started.Log, 20))
	}
	return started, nil
}

// installPeerWebhooks applies the peer's own webhook configurations, for a port of loopback instead
// of a Service.
func (c *Cluster) installPeerWebhooks(ctx context.Context, peer Peer, port int, bundle []byte) error {
	module, err := peer.source(ctx)
	if err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(module.Dir, filepath.FromSlash(peer.webhooks)))
	if err != nil {
		return fmt.Errorf("open the webhook configurations of %s: %w", peer.name, err)
	}
	defer file.Close()
	var documents []string
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		var document map[string]any
		err := decoder.Decode(&document)
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("parse the webhook configurations of %s: %w", peer.name, err)
		}
		if document == nil {
			continue
		}
		document["metadata"] = map[string]any{"name": peer.name}
		hooks, _ := document["webhooks"].([]any)
		for _, each := range hooks {
			hook := each.(map[string]any)
			service := hook["clientConfig"].(map[string]any)["service"].(map[string]any)
			hook["clientConfig"] = map[string]any{
				"url":      fmt.Sprintf("https://127.0.0.1:%d%s", port, service["path"]),
				"caBundle": base64.StdEncoding.EncodeToString(bundle),
			}
			if name, _ := hook["name"].(string); strings.Contains(name, "pod.") {
				// As config/components/webhook/patches of JobSet has it: only the Pods of JobSets.
				hook["objectSelector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}}}
			}
		}
		data, err := k8syaml.Marshal(document)
		if err != nil {
			return fmt.Errorf("encode a webhook configuration of %s: %w", peer.name, err)
		}
		documents = append(documents, string(data))
	}
	_, err = c.mustKubectl(ctx, strings.Join(documents, "---\n"), "apply", "--server-side", "--force-conflicts", "-f", "-")
	return err
}
