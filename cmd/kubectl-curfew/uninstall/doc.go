// Package uninstall finds what an installation of Curfew consists of and removes it.
//
// [Find] reads everything first: the objects (inventory.go), the policies and tallies that are lost
// with the CRDs (installation.go), and the objects that stay (inventory.go). [Installation.Check]
// asks the API server, in a dry run, whether all of that may be deleted: a removal never ends
// half-way because of a missing permission. [Installation.Remove] then deletes in an order in which
// nothing waits for an object that is already deleted (remove.go):
//
//  1. Webhook configurations, so that no request waits for a webhook.
//  2. The Deployments and then the permissions: a controller that still runs somewhere can do
//     nothing any more, and adds no finalizers.
//  3. The finalizers of PodTallies on Pods (remove.go).
//  4. The CRDs, and with them policies, tallies and reports.
//  5. The rest, and at last the Namespace, if it holds no foreign objects.
//
// [Installation.Left] looks at the end whether anything is left that blocks. [Command] is kubectl
// curfew uninstall (command.go).
package uninstall
