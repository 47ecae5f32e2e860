package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"curfew.dev/curfew/test/harness"
)

// through is the administrator's kubeconfig for an API server behind a proxy.
func through(t *testing.T, proxy *harness.Proxy) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(suite.cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// What the proxy passes on are headers, not certificates.
	admin := strings.ToLower(t.Name())
	kubectl(t, "create serviceaccount "+admin+" -n curfew-system")
	kubectl(t, "create clusterrolebinding "+admin+" --clusterrole=cluster-admin --serviceaccount=curfew-system:"+admin)
	token := strings.TrimSpace(kubectl(t, "create token "+admin+" -n curfew-system").stdout)
	for _, user := range config.AuthInfos {
		user.Token, user.ClientCertificate, user.ClientCertificateData, user.ClientKey, user.ClientKeyData = token, "", nil, "", nil
	}
	for _, server := range config.Clusters {
		server.Server, server.CertificateAuthority, server.CertificateAuthorityData = proxy.URL(), "", proxy.Authority()
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}
