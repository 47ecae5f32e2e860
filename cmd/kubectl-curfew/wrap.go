package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is how wide kubectl writes its own help.
const helpWidth = 80

// wrapHelp breaks the long descriptions of a command and of those below it where a terminal would break them within words.
func wrapHelp(command *cobra.Command) {
	command.Long = wrap(command.Long, helpWidth)
	for _, each := range command.Commands() {
		wrapHelp(each)
	}
}

// wrap fills the lines of each paragraph anew.
func wrap(text string, width int) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		var out strings.Builder
		at := 0
		for word := range strings.FieldsSeq(paragraph) {
			length := utf8.RuneCountInString(word)
			switch {
			case at == 0:
			case at+1+length > width:
				out.WriteByte('\n')
				at = 0
			default:
				out.WriteByte(' ')
				at++
			}
			out.WriteString(word)
			at += length
		}
		paragraphs = append(paragraphs, out.String())
	}
	return strings.Join(paragraphs, "\n\n")
}
