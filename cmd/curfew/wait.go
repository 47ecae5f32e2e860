package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/webhook/probe"
)

// waits waits for the webhooks. The chart's hook runs it, so that helm install ends when Curfew works.
func waits() *cobra.Command {
	timeout := 2 * time.Minute
	command := &cobra.Command{
		Use:   "wait",
		Short: "Wait until the API server calls the webhooks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := restConfig("")
			if err != nil {
				return err
			}
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("client of the API server: %w", err)
			}
			return waitForWebhooks(cmd.Context(), client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), timeout, cmd.OutOrStdout())
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait")
	return command
}

// waitForWebhooks fails only where the webhooks are not called. Another admission policy may refuse
// the namespace that is tried, such as one that demands a label: then nothing is known.
func waitForWebhooks(ctx context.Context, namespaces dynamic.ResourceInterface, timeout time.Duration, out io.Writer) error {
	why, unknown := "no answer", false
	err := wait.PollUntilContextTimeout(ctx, time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		result, err := probe.Try(ctx, namespaces)
		switch {
		case ctx.Err() != nil: // The last answer says more.
		case err != nil:
			status := apierrors.APIStatus(nil)
			why, unknown = err.Error(), errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError
		default:
			why, unknown = cmp.Or(result.Refused, "objects are created without defaults and checks"), false
		}
		return result.Defaults && result.Validates, nil
	})
	if err != nil && unknown {
		_, err = fmt.Fprintf(out, "whether the API server calls Curfew's webhooks is not known: %s\n", why)
	} else if err != nil {
		err = fmt.Errorf("the API server does not call Curfew's webhooks after %v: %s; for more see: kubectl curfew status", timeout, why)
	}
	return err
}
