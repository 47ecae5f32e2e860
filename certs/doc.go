// Package certs keeps the webhook's serving certificate valid and makes the API server trust it.
//
// One pass of SelfSigned.Start reads the webhook configurations and the Secret that all replicas
// share, lets plan decide what the certificates need (nothing, most of the time), writes the Secret
// if something changed, loads the serving certificate, and injects the CA bundle into every webhook
// that lacks it. A pass runs at the start, when one of these objects changes, when a certificate is
// due, and now and then for events that a watch lost. The TLS listener calls GetCertificate for
// every handshake, so that a renewal needs no restart.
//
// The API server's time decides what is valid: it verifies the certificate, and replicas whose
// clocks differ would keep replacing each other's.
//
// Three rules keep a rotation from cutting off the API server:
//
//   - A new CA is added to the bundle next to the old one, and signs nothing until it has been
//     there for a while, unless no working serving certificate can be kept meanwhile. The old CA
//     leaves the bundle when it expires.
//   - Every write of the Secret names the resourceVersion that was judged. The loser of a race
//     reads the winner's Secret.
//   - Configurations are read before the Secret and patched with the resourceVersion of that read.
//     A replica that slept in between gets a conflict, and does not overwrite a newer bundle.
//
// The rest of Curfew uses [Provider].
package certs
