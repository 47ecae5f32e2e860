// Package servertime knows the API server's time, from the Date header of its answers: how far this
// host's clock is off it ([Skew]), and what time to stamp objects with ([ServerTime]).
package servertime
