// Package certs keeps the webhook's serving certificate valid and makes the API server trust it.
//
// The flow of one pass, in SelfSigned.Start: read the webhook configurations, read the Secret that all replicas share,
// let plan decide what its certificates need at this instant (nothing, most of the time), write the Secret if something
// changed, load the serving certificate, and put the CA bundle into every webhook entry that lacks it. A pass runs at
// start, when one of those objects changes, when a certificate falls due, and once in a while for what a watch lost.
// The TLS listener asks GetCertificate on every handshake, so that a renewal needs no restart.
//
// What is valid is decided by the API server's time: it verifies the certificate, and replicas whose clocks differ would replace
// each other's without end.
//
// Three rules keep a rotation from ever cutting the API server off:
//
//   - A new CA is added to the bundle beside the old one, and signs nothing until it has been there for a while, unless
//     there is no working serving certificate that could be kept meanwhile. The old CA leaves when it expires.
//   - The Secret is only ever written with the resourceVersion that was judged. The loser of a race reads the winner's.
//   - Configurations are read before the Secret and patched with the resourceVersion of that read. A replica that slept
//     between the two gets a conflict instead of putting an older bundle over a newer one.
//
// Provider is what the rest of Curfew sees of all this.
package certs
