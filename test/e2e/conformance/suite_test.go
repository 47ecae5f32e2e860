package conformance

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/test/harness"
	"curfew.dev/curfew/test/world"
)

// controllers leaves out those that change the objects of the test: the garbage collector, the Job
// controller and the Pod garbage collector.
const controllers = "clusterrole-aggregation-controller,node-lifecycle-controller,root-ca-certificate-publisher-controller,serviceaccount-controller"

// suite is the real control plane.
var suite struct {
	cluster *harness.Cluster
	client  *http.Client
	minor   int // of its release: 36 of Kubernetes 1.36
}

func TestMain(m *testing.M) {
	os.Exit(harness.Main(".e2e-conformance", harness.ClusterOptions{Controllers: controllers}, func(ctx context.Context, cluster *harness.Cluster) (int, error) {
		suite.cluster = cluster
		return run(ctx, m)
	}))
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if suite.client, err = rest.HTTPClientFor(suite.cluster.Config); err != nil {
		return 0, err
	}
	version, err := suite.cluster.Client.Discovery().ServerVersion()
	if err != nil {
		return 0, err
	}
	if suite.minor, err = strconv.Atoi(version.Minor); err != nil {
		return 0, fmt.Errorf("the release of the API server: %w", err)
	}
	if err := install(ctx, world.Runs()); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// install installs a definition and waits until its kind is served.
func install(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) error {
	client, err := dynamic.NewForConfig(suite.cluster.Config)
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	if err != nil {
		return err
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{}); err != nil {
		return err
	}
	runs := client.Resource(schema.GroupVersionResource{Group: "world.example.dev", Version: "v1", Resource: "runs"})
	return harness.Poll(ctx, "kind Run to be served", func(ctx context.Context) (bool, error) {
		_, err := runs.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}
