// Package lifecycle installs, upgrades, rolls back and uninstalls Curfew, on a control plane of its
// own: kubectl curfew uninstall leaves nothing that blocks, and objects that an older version stamped
// keep their meaning.
//
// TestGuides runs the blocks of the guides, with a control plane that has nothing else.
//
// FULL=1 also runs what builds the previous version, as `make test-full` does.
package lifecycle
