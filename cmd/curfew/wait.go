package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/webhook/probe"
)

// waits waits for the webhooks. The chart's hook runs it, so that helm install ends when Curfew works.
func waits() *cobra.Command {
	kubeconfig, timeout := "", 2*time.Minute
	command := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the API server calls the webhooks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := restConfig(kubeconfig)
			if err != nil {
				return err
			}
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("client of the API server: %w", err)
			}
			return waitForWebhooks(cmd.Context(), client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), timeout)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", kubeconfig, "kubeconfig file; empty means in-cluster, then the usual places")
	command.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait")
	return command
}

func waitForWebhooks(ctx context.Context, namespaces dynamic.ResourceInterface, timeout time.Duration) error {
	why := "no answer"
	err := wait.PollUntilContextTimeout(ctx, time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		result, err := probe.Try(ctx, namespaces)
		switch {
		case ctx.Err() != nil: // The last answer says more.
		case err != nil:
			why = err.Error()
		default:
			why = cmp.Or(result.Refused, "objects are created without defaults and checks")
		}
		return result.Defaults && result.Validates, nil
	})
	if err != nil {
		return fmt.Errorf("the API server does not call Curfew's webhooks after %v: %s; for more see: kubectl curfew status", timeout, why)
	}
	return nil
}
