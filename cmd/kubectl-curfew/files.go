package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"curfew.dev/curfew/webhook/lint"
)

// extensions of the files that are read in a directory. A named file may have any.
var extensions = []string{".yaml", ".yml", ".json"}

// readSources reads files in the given order, and those of a directory in the order of their names.
func readSources(names []string, recursive bool, in io.Reader) ([]lint.Source, error) {
	var out []lint.Source
	for _, name := range names {
		if name == "-" {
			data, err := readAll(in)
			if err != nil {
				return nil, fmt.Errorf("reading standard input: %w", err)
			}
			out = append(out, lint.Source{Data: data})
			continue
		}
		files, err := expand(name, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			source, err := readFile(file)
			if err != nil {
				return nil, err
			}
			out = append(out, source)
		}
	}
	return out, nil
}

// expand returns a file itself, and the manifests in a directory.
func expand(name string, recursive bool) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("-f %s: %w", name, unwrapPath(err))
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains(extensions, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("-f %s: %w", name, err)
	}
	if len(files) == 0 {
		fix := ""
		if !recursive {
			fix = ", or -R to look in the directories below"
		}
		return nil, fmt.Errorf("-f %s: there is no .yaml, .yml or .json file in it: give another%s", name, fix)
	}
	return files, nil
}

func readFile(name string) (lint.Source, error) {
	file, err := os.Open(name)
	if err != nil {
		return lint.Source{}, fmt.Errorf("-f %s: %w", name, unwrapPath(err))
	}
	defer file.Close()
	data, err := readAll(file)
	if err != nil {
		return lint.Source{}, fmt.Errorf("-f %s: %w", name, unwrapPath(err))
	}
	return lint.Source{Name: filepath.ToSlash(name), Data: data}, nil
}

// readAll reads one byte beyond the limit, which package lint rejects.
func readAll(in io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(in, lint.DefaultMaxBytes+1))
}

// unwrapPath removes the path from an error whose message already has it.
func unwrapPath(err error) error {
	if pathError, ok := err.(*fs.PathError); ok {
		return pathError.Err
	}
	return err
}
