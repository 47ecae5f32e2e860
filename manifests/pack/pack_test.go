package pack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommit: commit and time come from the repository itself, and a file that differs shows.
// SOURCE_DATE_EPOCH sets another time.
func TestCommit(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=Test", "-c", "user.email=test@example.com"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=1600000000 +0200")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	expect := func(folder, epoch, commit string, seconds int64) {
		t.Helper()
		t.Setenv("SOURCE_DATE_EPOCH", epoch)
		got, instant, err := Commit(folder)
		if err != nil || got != commit || instant.Unix() != seconds {
			t.Errorf("%s: commit %q at %d, error %v; want %q at %d", folder, got, instant.Unix(), err, commit, seconds)
		}
	}
	expect(root, "", "", 0)
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message=first")
	head := git("rev-parse", "HEAD")
	expect(root, "", head, 1600000000)
	expect(root, "1700000000", head, 1700000000)
	inner := filepath.Join(root, "unpacked")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inner, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	expect(root, "", head+"-dirty", 1600000000)
	expect(inner, "", "", 0) // not the commit of the repository around it
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if _, _, err := Commit(root); err == nil || err.Error() != "SOURCE_DATE_EPOCH=today: give seconds since 1970" {
		t.Errorf("error %v", err)
	}
}
