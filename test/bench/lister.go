package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// listCommand is the first argument that turns this program into the bare list.
const listCommand = "list"

// listPage is how many objects client-go's own pager asks for at a time.
const listPage = 500

// listReport is what the list writes when it is through.
type listReport struct {
	Objects int     `json:"objects"`
	Seconds float64 `json:"seconds"`
}

func init() { commands[listCommand] = runList }

// runList is what a restart and a preview are measured by: all Jobs or ConfigMaps, page by page, by
// client-go's typed client (protobuf, no limit of its own). It judges nothing and keeps nothing.
// The connection is there before the clock starts, as Curfew's is when it gets the lease.
func runList(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet(listCommand, flag.ContinueOnError)
	kubeconfig := fs.String("kubeconfig", "", "the cluster")
	resource := fs.String("resource", resourceJobs, "resource to list: jobs or configmaps")
	if err := fs.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(connect(config))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	list := func(options metav1.ListOptions) (int, string, error) {
		if *resource == resourceConfigMaps {
			page, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, options)
			return len(page.Items), page.Continue, err
		}
		page, err := client.BatchV1().Jobs(metav1.NamespaceAll).List(ctx, options)
		return len(page.Items), page.Continue, err
	}
	if _, _, err := list(metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("list %s: %w", *resource, err)
	}
	report := listReport{}
	began := time.Now()
	for options := (metav1.ListOptions{Limit: listPage}); ; {
		items, next, err := list(options)
		if err != nil {
			return fmt.Errorf("list %s: %w", *resource, err)
		}
		report.Objects += items
		if options.Continue = next; next == "" {
			break
		}
	}
	report.Seconds = time.Since(began).Seconds()
	return json.NewEncoder(out).Encode(report)
}
