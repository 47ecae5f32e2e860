package main

import (
	"os"

	"golang.org/x/term"
)

// terminal tells whether a person looks at a stream, or types into it.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
