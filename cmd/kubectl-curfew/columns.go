package main

import (
	"strings"
	"unicode/utf8"
)

// columns writes rows one after the other so that they stand below each other: each column is as wide as it has been.
type columns struct {
	widths []int
}

const gap = 3

// line is one row. A column that grows pushes only the rows that follow.
func (c *columns) line(cells []string) string {
	var out strings.Builder
	for i, cell := range cells {
		cell = oneLine(cell)
		width := utf8.RuneCountInString(cell)
		if i >= len(c.widths) {
			c.widths = append(c.widths, 0)
		}
		c.widths[i] = max(c.widths[i], width)
		out.WriteString(cell)
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", c.widths[i]-width+gap))
		}
	}
	return out.String()
}

// learn makes room for rows before any of them is written.
func (c *columns) learn(rows [][]string) {
	for _, row := range rows {
		c.line(row)
	}
}

// cut leaves of a line what fits.
func cut(line string, width int) string {
	if width <= 0 || utf8.RuneCountInString(line) <= width {
		return line
	}
	runes := []rune(line)
	return string(runes[:max(0, width-1)]) + "…"
}
