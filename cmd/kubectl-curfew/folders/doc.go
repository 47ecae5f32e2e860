// Package folders reads manifests from files, directories and standard input, and leaves out files
// that are not meant for the API server.
package folders
