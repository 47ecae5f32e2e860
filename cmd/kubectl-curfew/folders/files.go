package folders

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/policy/lint"
)

// NoArguments tells what to do about files without -f.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q stands alone: put -f before it", args[0])
	}
	return nil
}

// Given is the error about flags that have no -f.
func Given(names []string) error {
	if len(names) == 0 {
		return errors.New("-f is missing: give a file, a directory, or - for standard input")
	}
	return nil
}

// ListFiles lists the files that -f names, in the given order and each once. It lists the
// files of a directory in the order of their names.
func ListFiles(names []string, recursive bool, ignored []string, r io.Reader) ([]file, error) {
	var out []file
	seen := map[string]bool{}
	for _, name := range names {
		files := []file{{Name: name}}
		if name == "-" {
			data, err := readAll(r)
			if err != nil {
				return nil, fmt.Errorf("reading standard input: %w", err)
			}
			files = []file{{data: append([]byte{}, data...)}}
		} else if info, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("-f %s: %w", name, unwrapPath(err))
		} else if info.IsDir() {
			if files, err = listFolder(name, recursive, ignored); err != nil {
				return nil, err
			}
		}
		for _, each := range files {
			if path := filepath.Clean(each.Name); each.data != nil || !seen[path] {
				out, seen[path] = append(out, each), true
			}
		}
	}
	return out, nil
}

// ReadSources reads files that are to be manifests.
func ReadSources(names []string, r io.Reader) ([]lint.Input, error) {
	files, err := ListFiles(names, false, nil, r)
	if err != nil {
		return nil, err
	}
	var out []lint.Input
	for i := range files {
		source, err := files[i].Source()
		if err != nil {
			return nil, err
		}
		out = append(out, source)
	}
	return out, nil
}

// Source reads the file.
func (f *file) Source() (lint.Input, error) {
	if f.data != nil {
		return lint.Input{Data: f.data}, nil
	}
	return readFile(f.Name)
}

func readFile(name string) (lint.Input, error) {
	file, err := os.Open(name)
	if err != nil {
		return lint.Input{}, fmt.Errorf("-f %s: %w", name, unwrapPath(err))
	}
	defer file.Close()
	data, err := readAll(file)
	if err != nil {
		return lint.Input{}, fmt.Errorf("-f %s: %w", name, unwrapPath(err))
	}
	return lint.Input{Name: filepath.ToSlash(name), Data: data}, nil
}

// readAll reads one byte beyond the limit, which package lint rejects.
func readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, lint.DefaultMaxBytes+1))
}

// unwrapPath removes the path from an error whose message already has it.
func unwrapPath(err error) error {
	if pathError, ok := err.(*fs.PathError); ok {
		return pathError.Err
	}
	return err
}

// Manifests reads the documents of files each time that they are needed, so that memory does not
// grow with their number.
type Manifests struct {
	files []file
	// Skipped and unreadable are known after the first reading.
	Skipped    []Skipped
	Unreadable []error
	read       bool
}

// Skipped is a file, or a document of one, that is not judged.
type Skipped struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty" doc:"of the document; none for a whole file"`
	Reason string `json:"reason"`
}

func NewManifests(files []file) *Manifests { return &Manifests{files: files} }

// Each passes all documents to a function, in their order.
func (m *Manifests) Each(ctx context.Context, progress *console.Progress, do func(*lint.Document) error) error {
	for i := range m.files {
		progress.Say("%d of %s read", i, console.Count(len(m.files), "file"))
		documents, err := m.documents(&m.files[i])
		if err != nil {
			return err
		}
		for _, document := range documents {
			if err := do(document); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	m.read = true
	return nil
}

func (m *Manifests) documents(from *file) ([]*lint.Document, error) {
	if from.Skip != "" {
		m.skip(Skipped{File: filepath.ToSlash(from.Name), Reason: from.Skip})
		return nil, nil
	}
	source, err := from.Source()
	if err != nil {
		return nil, err
	}
	documents, errs := lint.Read(source, lint.Limits{})
	if from.found {
		errs = m.withoutForeign(source, errs)
	}
	if !m.read {
		m.Unreadable = append(m.Unreadable, errs...)
	}
	return documents, nil
}

// withoutForeign leaves out errors of documents that are not meant for the API server.
func (m *Manifests) withoutForeign(source lint.Input, errs []error) []error {
	return slices.DeleteFunc(errs, func(err error) bool {
		skipped := Skipped{File: source.Name, Reason: skippedForeign}
		if bytes.Contains(source.Data, []byte("{{")) {
			skipped.Reason = skippedTemplate
		}
		unreadable, limit := (*lint.DocumentError)(nil), (*lint.LimitError)(nil)
		switch {
		case errors.As(err, &unreadable) && unreadable.Foreign:
			skipped.Line = unreadable.Line
		case errors.As(err, &limit) && lint.Foreign(source.Data):
		default:
			return false
		}
		m.skip(skipped)
		return true
	})
}

// skip records a document, or several of one file for the same reason.
func (m *Manifests) skip(skipped Skipped) {
	last := len(m.Skipped) - 1
	if !m.read && (last < 0 || m.Skipped[last].File != skipped.File || m.Skipped[last].Reason != skipped.Reason) {
		m.Skipped = append(m.Skipped, skipped)
	}
}
