package main

import (
	"os"

	"golang.org/x/term"
)

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// terminalSize is 0, 0 for a stream whose size is not known.
func terminalSize(stream any) (width, height int) {
	file, ok := stream.(*os.File)
	if !ok {
		return 0, 0
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
