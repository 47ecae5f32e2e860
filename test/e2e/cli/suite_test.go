package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"curfew.dev/curfew/test/harness"
)

// suite is what all tests share.
var suite struct {
	root       string
	cluster    *harness.Cluster
	webhook    *harness.Curfew
	controller *harness.Curfew
	// bare are the answers of command lines before Curfew was installed.
	bare map[string]answer
}

// controllers are all but those that would change what the tests wrote: without them a status stays
// as it is.
const controllers = "*,-node-ipam-controller,-ttl-after-finished-controller,-job-controller,-deployment-controller,-replicaset-controller," +
	"-pod-garbage-collector-controller"

func TestMain(m *testing.M) {
	os.Exit(harness.Main(".e2e-cli", harness.ClusterOptions{Controllers: controllers}, func(ctx context.Context, cluster *harness.Cluster) (int, error) {
		suite.cluster = cluster
		return run(ctx, m)
	}))
}

func run(ctx context.Context, m *testing.M) (code int, err error) {
	if suite.root, err = harness.Root(); err != nil {
		return 0, err
	}
	suite.cluster.Patient = true // Nothing fails closed: kubectl curfew reports that, and tests end the webhook.
	suite.bare = map[string]answer{}
	for text := range bare {
		if suite.bare[text], err = (line{text: text}).run(ctx); err != nil {
			return 0, err
		}
	}
	if err := suite.cluster.InstallCRDs(ctx, harness.JobSet, harness.Trainer); err != nil {
		return 0, err
	}
	if suite.webhook, err = suite.cluster.StartWebhook(ctx, harness.CurfewOptions{}); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop(suite.webhook)) }()
	if err := suite.cluster.WaitForWebhook(ctx); err != nil {
		return 0, err
	}
	if err := startController(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop(suite.controller)) }()
	return m.Run(), nil
}

// startController starts one and waits until it leads.
func startController(ctx context.Context, args ...string) (err error) {
	if suite.controller, err = suite.cluster.StartController(ctx, harness.CurfewOptions{Args: args}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		lease, err := leases().Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && *lease.Spec.HolderIdentity != "" && lease.Spec.RenewTime.After(began), err
	})
	if err != nil {
		return fmt.Errorf("waiting for the controller to lead: %w", err)
	}
	return nil
}

const leaseName = "curfew-controller"

func leases() coordinationclient.LeaseInterface {
	return suite.cluster.Client.CoordinationV1().Leases(harness.Namespace)
}

// leads has the Lease say that a replica leads, for an hour, or with "" that none does.
func leads(ctx context.Context, replica string) error {
	patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":3600,"renewTime":%q}}`, replica, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := leases().Patch(ctx, leaseName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// stop ends a process of Curfew; one that a test ended already is fine.
func stop(process *harness.Curfew) error {
	select {
	case <-process.Ended():
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return process.Stop(ctx)
}
