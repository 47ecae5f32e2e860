// Package fieldpath parses the paths by which profiles name fields, such as spec.jobs[*].template,
// and reads the values at a path of an unstructured object.
package fieldpath
