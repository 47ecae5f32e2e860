package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Options say how a cluster is to run. The zero value is a usable cluster.
type Options struct {
	// InTreeTTL turns the in-tree TTL-after-finished controller on. Off by default: Curfew does that
	// work here.
	InTreeTTL bool `json:"inTreeTTL"`
	// Controllers, if set, is the controller manager's --controllers, verbatim. InTreeTTL has no say
	// then.
	Controllers string `json:"controllers,omitempty"`
	// AuditLog makes the API server write <dir>/logs/audit.log, one line a request, at level Metadata.
	AuditLog bool `json:"auditLog,omitempty"`
	// Arguments are further arguments for a component, by its name. They come last, so that they win.
	Arguments map[string][]string `json:"arguments,omitempty"`
}

// String returns the options as cluster.json has them.
func (o Options) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// State is what cluster.json in the cluster's directory says.
type State struct {
	// Dir is the cluster's directory, absolute.
	Dir string `json:"dir"`
	// Ready is true from when Start has seen every component answer. A start that was cut short leaves
	// it false.
	Ready bool `json:"ready"`
	// Versions by name: kubernetes, etcd, kwok.
	Versions Versions `json:"versions"`
	Options  Options  `json:"options"`

	// Server is the API server's URL, Etcd that of etcd, both on loopback.
	Server string `json:"server"`
	Etcd   string `json:"etcd"`
	// Kubeconfig is the path of the administrator's kubeconfig, in group system:masters.
	Kubeconfig string `json:"kubeconfig"`
	// CAFile is the path of the cluster's authority.
	CAFile string `json:"caFile"`
	// Token is the administrator's bearer token.
	Token string `json:"token"`
	// Kubectl is the path of the kubectl binary that fits the server.
	Kubectl string `json:"kubectl"`

	Components map[string]Component `json:"components"`
}

// Component is one process of the control plane. Its name is its key in State.Components.
type Component struct {
	// PID as of the last start or restart. It may be gone since.
	PID int `json:"pid"`
	// Port is the loopback port on which it serves.
	Port int `json:"port"`
	// PeerPort is etcd's second port.
	PeerPort int `json:"peerPort,omitempty"`
	// Health is the URL that answers 200 when it works.
	Health string `json:"health"`
	// Command is its whole command line.
	Command []string `json:"command"`
	// Log is the path that its output is appended to.
	Log string `json:"log"`
}

const stateFile = "cluster.json"

// Load reads the state of the cluster in dir. The error is fs.ErrNotExist when there is none.
func Load(dir string) (*State, error) {
	path := filepath.Join(dir, stateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's state: %w", err)
	}
	state := &State{}
	if err := json.Unmarshal(data, state); err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return state, nil
}

// save writes the state beside its file and renames it there, so that a reader never sees half of
// it. It holds the administrator's token, hence the mode.
func (s *State) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the cluster's state: %w", err)
	}
	path := filepath.Join(s.Dir, stateFile)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the cluster's state: %w", err)
	}
	return nil
}

// wipe removes what a cluster keeps in dir, so that the next start finds nothing of it, and leaves
// the logs, which show why it ended. Files of others in dir stay.
func wipe(dir string) error {
	for _, name := range []string{stateFile, stateFile + ".new", "kubeconfig", "data", "pki", "config"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove the cluster's data: %w", err)
		}
	}
	return nil
}

// lock takes the lock of a directory, which is made if need be. The kernel gives it back when the
// holder dies, however it does, so no stale lock is possible. Waiting is told to say, once.
func lock(dir string, say func(format string, args ...any)) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	path := filepath.Join(dir, ".lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		say("another command works in %s, waiting for it", dir)
		for {
			if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

// absent says whether err means that there is no cluster in the directory, as opposed to one that
// cannot be read.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
