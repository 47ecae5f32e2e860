package house

import (
	"os/exec"
	"strings"
	"testing"
)

// heavy are packages that would add much to the size of the plugin, each with what to use instead.
// It has 51 MB, stripped; 55 MB are the limit.
var heavy = map[string]string{
	"plugin":                            "the linker then keeps every exported method",
	"sigs.k8s.io/kustomize":             "it imports plugin",
	"k8s.io/cli-runtime/pkg/resource":   "it imports kustomize",
	"k8s.io/client-go/kubernetes/typed": "it has a client of every API type: use world.Clients.Objects, which is dynamic",
	"k8s.io/client-go/informers":        "it has an informer of every API type",
	"k8s.io/kubectl":                    "it has all of kubectl",
	"sigs.k8s.io/controller-runtime":    "it has all that a controller needs",
	"k8s.io/apiserver/pkg/server":       "it has a whole API server",
}

// TestPluginIsSmall: people download kubectl-curfew, and its size follows from what it imports.
func TestPluginIsSmall(t *testing.T) {
	linksNone(t, "kubectl-curfew", heavy)
}

// foreign are packages that cert-manager's code for certificates would bring into the cluster.
var foreign = map[string]string{
	"github.com/go-ldap":                            "cert-manager's pkg/util/pki imports it: make certificates by the standard library",
	"github.com/cert-manager/cert-manager/pkg/util": "it imports go-ldap: make certificates by the standard library",
	"sigs.k8s.io/gateway-api/pkg":                   "cert-manager's API types need its apis/v1 alone",
}

// TestCurfewLinksNoCodeOfIssuers: what runs in the cluster has cert-manager's types and nothing else
// of it. They import the types of gateway-api, which therefore stay linked.
func TestCurfewLinksNoCodeOfIssuers(t *testing.T) { linksNone(t, "curfew", foreign) }

// linksNone fails for each package of a list that a program links, and for those below it.
func linksNone(t *testing.T, program string, list map[string]string) {
	t.Helper()
	imports, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"/cmd/"+program).Output()
	must(t, err)
	all := strings.Fields(string(imports))
	if len(all) < 300 {
		t.Fatalf("only %d packages are listed", len(all))
	}
	for _, imported := range all {
		for prefix, why := range list {
			if imported == prefix || strings.HasPrefix(imported, prefix+"/") {
				t.Errorf("%s links %s: %s", program, imported, why)
			}
		}
	}
}
