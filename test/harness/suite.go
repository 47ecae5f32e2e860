package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Main runs the tests of a suite on a control plane of its own, in a folder of that name, and
// returns the exit status of the process. run returns that of the tests, or why they could not run.
func Main(folder string, options ClusterOptions, run func(context.Context, *Cluster) (int, error)) int {
	code, err := onCluster(folder, options, run)
	if err != nil {
		fmt.Fprintln(os.Stderr, folder+":", err)
		code = 3 // not that of a failed test, see test/run
	}
	return code
}

func onCluster(folder string, options ClusterOptions, run func(context.Context, *Cluster) (int, error)) (code int, err error) {
	ctx := context.Background()
	root, err := Root()
	if err != nil {
		return 0, err
	}
	options.Dir, options.Out = filepath.Join(root, folder), os.Stderr
	if err := StopCluster(ctx, options.Dir); err != nil { // An earlier run may have been killed.
		return 0, err
	}
	defer func() { err = errors.Join(err, StopCluster(ctx, options.Dir)) }()
	cluster, err := StartCluster(ctx, options)
	if err != nil {
		return 0, err
	}
	defer cluster.Close()
	return run(ctx, cluster)
}
