// Package image builds the container image of Curfew without a container engine: a static binary
// for each platform, on an empty base. [Write] leaves an OCI image layout with one image for each
// platform, and archives that container engines load.
//
// The same source, version and time make the same bytes, so that anyone can check a digest.
package image
