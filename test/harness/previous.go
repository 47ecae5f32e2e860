package harness

import (
	"context"
	"fmt"
	"os/exec"
)

// previous is the version that this one is installed over. A release sets it to the commit of the
// release before. Until there is one, it is a commit of some days before.
const previous = "e14c8d749a9f419aa0407f386afdf9f19a0cbe6c"

// UnpackPrevious unpacks the previous version of Curfew into a folder. It reports false where that
// commit is missing, as in a shallow clone.
func UnpackPrevious(ctx context.Context, folder string) (bool, error) {
	root, err := Root()
	if err != nil {
		return false, err
	}
	if exec.CommandContext(ctx, "git", "-C", root, "cat-file", "-e", previous+"^{commit}").Run() != nil {
		return false, nil
	}
	const script = `git -C "$1" archive "$2" | tar -x -C "$3"`
	out, err := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script, "unpack", root, previous, folder).CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("unpack commit %s: %w\n%s", previous, err, out)
	}
	return true, nil
}
