// Package servertime estimates the API server's time from the Date header of its answers: how far
// this host's clock is off ([Skew]), and which time to stamp objects with ([ServerTime]).
package servertime
