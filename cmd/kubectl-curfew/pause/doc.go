// Package pause creates and deletes DeletionPauses: kubectl curfew pause and resume.
package pause
