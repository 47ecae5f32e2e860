// Package docs holds the pages for users, and the tests that compare them with the code: every
// annotation, flag, metric and rule is in the reference, what the pages name exists, and their
// links lead somewhere. Its only code is the page that kubectl curfew explain prints.
package docs

import _ "embed" // for Messages

// Messages is messages.md: a section for each admission rule, with kinds, cause, example and fix.
//
//go:embed messages.md
var Messages string
