// Package console is how all commands speak to a person or a program: the formats of -o, tables,
// progress on a terminal, times and exit statuses.
package console
