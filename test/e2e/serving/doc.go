// Package serving tests how the API server reaches Curfew's webhooks, on a control plane of its
// own: two replicas behind what acts like a Service, failurePolicy Fail, and an API server that
// shows them a client certificate. Certificates rotate and replicas restart under load, and no call
// may fail. The controllers, two as well, are stopped and killed while objects expire. One of them
// idles, and lists over a slow network.
//
// FULL=1 runs each for longer, as `make test-full` does.
package serving
