// Package watch is how Curfew follows the objects of a kind. A [Follower] lists all of them and then
// watches their changes. It resumes a watch where the last one ended, and lists everything again on
// schedule, when it is asked to, and when a watch cannot be resumed (S3).
//
// A list names no resourceVersion, so that the API server does not answer from a cache that lags
// (S7). [Each] reads lists page by page, and bounds pages by their size ([Sizes], [Cap]).
package watch
