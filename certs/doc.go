// Package certs supplies the webhook's serving certificate and makes the API server trust it. The
// rest of Curfew uses [Provider]; there are two.
//
// [Mounted] serves a certificate from a folder: cert-manager issues and renews it in a Secret that
// is mounted, and its cainjector writes the CA into the webhook configurations.
//
// [SelfSigned] needs nothing else. A Secret that all replicas share holds the CA. Each replica
// issues its own serving certificate, whose key stays in memory. One pass of SelfSigned.Start reads
// the webhook configurations and the Secret, lets plan decide what to change (usually nothing),
// writes the Secret if something changed, issues a certificate if this replica needs
// one, and injects the CA bundle into every webhook that lacks it. A pass runs at the start, when
// one of these objects changes, when a certificate is due, and now and then for events that a watch
// lost. The TLS listener calls GetCertificate for every handshake: a renewal needs no restart.
//
// The API server's time decides whether a certificate is valid: the API server verifies it, and
// replicas whose clocks differ would keep replacing each other's.
//
// These rules keep a rotation from cutting off the API server:
//
//   - A new CA is first added to the bundle, next to the old one. It signs once every webhook
//     configuration has had it for a while. A replica checks again before it serves a certificate
//     of another CA. Both rules give way where no valid certificate could be served otherwise.
//   - The old CA leaves the bundle when the last certificate that it can have signed has ended.
//   - A Secret that is deleted or damaged is restored from memory. A deleted one gets a new CA the
//     slow way, as above.
//   - Every write of the Secret names the resourceVersion that was judged. The loser of a race
//     reads the winner's Secret.
//   - Configurations are read before the Secret and patched with the resourceVersion of that read.
//     A replica that slept in between gets a conflict, and does not overwrite a newer bundle.
package certs
