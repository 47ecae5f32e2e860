// Package settings publishes how the controller runs: a ConfigMap in its own namespace with one key
// for each flag, and a [Report] of what only the controller knows.
//
// [Of] reads the effective values of the flags, and a [Publisher] applies them, on the leader only.
// `kubectl curfew` reads the ConfigMap, because nothing else in the cluster shows the flags of a
// process. No decision of the controller depends on it: anyone who may update ConfigMaps in
// Curfew's namespace can write it, and gains that the plugin shows others what they wrote, until
// the next apply.
package settings
