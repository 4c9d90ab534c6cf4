//! Pods of Kubernetes: those of the manifest find each other, and go on without each other.
//!
//! There is no cluster: namespaces imitate pods, which run the same script with the same settings (`pvm_tests::pods`).

use pvm_tests::install::workspace;
use pvm_tests::pods::{Key, Manifest, Pods, name};
use pvm_tests::{Installation, wait};
use std::fs;

fn packaged(file: &str) -> String {
    fs::read_to_string(workspace().join("packaging").join(file)).expect("the file can be read")
}

/// The value that the script gives a variable if the manifest gives it none.
fn default_of(variable: &str) -> String {
    let script = packaged("kubernetes/pod.sh");
    let found = script.split_once(&format!("\"${{{variable}:="));
    let value = found.and_then(|(_, rest)| rest.split('}').next());
    value.unwrap_or_else(|| panic!("pod.sh sets no {variable}")).to_owned()
}

#[test]
fn the_manifest_the_script_and_the_image_agree() {
    let manifest = Manifest::read();
    let service = manifest.after("serviceName:");
    assert_eq!(manifest.after("metadata:\n  name:"), service, "the Service is the first object");
    assert_eq!(default_of("POD_SERVICE"), service);
    assert_eq!(default_of("POD_SSH_PORT"), manifest.after("containerPort:"));
    let mounted = manifest.after("name: key, mountPath:");
    let file = default_of("POD_KEY").strip_prefix(mounted).map(str::to_owned).expect("it is mounted there");
    assert_eq!(file, "/ssh-privatekey", "the name of the key in Secrets of type kubernetes.io/ssh-auth");
    assert!(manifest.text().contains("{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}"));
    let user = manifest.after("runAsUser:");
    assert_eq!((manifest.after("runAsGroup:"), manifest.after("fsGroup:")), (user, user));
    let image = packaged("Containerfile");
    for part in [&format!("useradd --uid {user} --user-group"), &format!("USER {user}\n"), "openssh-server"] {
        assert!(image.contains(part), "the image is not built with {part}");
    }
    // What the Pod Security Standard "restricted" asks for.
    for part in [
        "runAsNonRoot: true",
        "allowPrivilegeEscalation: false",
        "capabilities: {drop: [ALL]}",
        "seccompProfile: {type: RuntimeDefault}",
    ] {
        assert!(manifest.text().contains(part), "the manifest does not say {part}");
    }
    // Packages install below /usr.
    let Some(ours) = Installation::ours_only("the place of the script") else { return };
    let script = manifest.after("command:").strip_prefix("/usr/lib/pvm3/").expect("it is of a package");
    assert!(ours.root().is_some_and(|root| root.join(script).is_file()), "{script} is not installed");
}

#[test]
fn pods_are_one_virtual_machine_that_outlives_each_of_them() {
    let check = "pods as hosts";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(mut pods) = Pods::of(4, &ours, check) else { return };
    pods.publish(&[0, 1, 2]);
    for index in [2, 1, 0] {
        pods.start(index);
    }
    pods.await_machine(&[0, 1, 2]);
    assert!(pods.log(0).contains("starts one") && pods.log(1).contains("has joined"), "{}", pods.said());
    // Tasks that take a while: a host could run one after the other of shorter ones.
    let said = pods.exec(2, &["pvm", "run", "--here", "-n", "6", "sh", "-c", "uname -n; sleep 1"]);
    assert!((0..3).all(|index| said.contains(&name(index))), "{said}");
    let job = pods.exec(1, &["pvm", "submit", "--output", "none", "sleep", "5"]);
    let job = job.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty()).expect("a number");

    // The node of pod 0 is lost. Kubernetes starts the pod again, and there is one virtual machine as before.
    pods.lose(0);
    pods.await_machine(&[1, 2]);
    pods.heal(0);
    pods.start(0);
    pods.await_machine(&[0, 1, 2]);
    assert!(pods.log(0).contains("has joined") && !pods.log(0).contains("starts one"), "{}", pods.said());
    pods.exec(0, &["pvm", "wait", job]);

    pods.publish(&[0, 1, 2, 3]);
    pods.start(3);
    pods.await_machine(&[0, 1, 2, 3]);
    let ended = pods.delete(3);
    ended.expect_success();
    assert!(ended.stderr.ends_with("pod.sh: leaves the virtual machine\n"), "{ended:#?}");
    pods.await_machine(&[0, 1, 2]);
    // One of the others has been the master since the loss of pod 0.
    let master = pods.master(0);
    let other = 3 - master;
    let ended = pods.delete(master);
    ended.expect_success();
    assert!(ended.stderr.ends_with("leaves the virtual machine to another master\n"), "{ended:#?}");
    pods.await_machine(&[0, other]);

    // A daemon is lost, that of the master, and not its pod.
    assert_eq!(pods.master(0), other);
    let killed = pods.daemon(other);
    pods.exec(other, &["sh", "-c", &format!("kill -KILL {killed}")]);
    wait::becomes_true("the end of a daemon", || pods.log(other).contains("the daemon has ended"));
    pods.await_machine(&[0, other]);
    // A pod shows its daemon's log once a second.
    wait::becomes_true("another daemon", || pods.daemon(other) != killed);
    // Kubernetes says how many hosts there are, and not the console.
    pods.publish(&[0, other]);
    pods.exec(0, &["pvm", "halt"]);
    wait::becomes_true("the end of a virtual machine", || pods.log(0).contains("starts one"));
    pods.await_machine(&[0, other]);
    pods.delete(other).expect_success();
    let ended = pods.delete(0);
    ended.expect_success();
    assert!(ended.stderr.ends_with("ends the virtual machine, whose last pod this is\n"), "{ended:#?}");
}

#[test]
fn a_pod_that_is_set_up_wrongly_says_in_a_line_what_to_do() {
    let check = "pods that are set up wrongly";
    let Some(ours) = Installation::ours_only(check) else { return };
    let Some(mut pods) = Pods::of(1, &ours, check) else { return };
    let wrong = [
        (Key::Missing, "", "kubectl create secret generic pvm-ssh --type=kubernetes.io/ssh-auth"),
        (Key::OfRoot, "", "set the Secret's defaultMode to 0440 and securityContext.fsGroup to 1000"),
        (Key::Public, "", "is no private key for ssh"),
        (Key::Right, "POD_IP=", "the manifest takes it from status.podIP"),
        (Key::Right, "PVM_TMP=/proc", "cannot write in /proc"),
    ];
    for (key, variable, expected) in wrong {
        let ended = pods.run(0, key, variable);
        assert_eq!(ended.status.code(), Some(2), "{ended:#?}");
        assert!(ended.stderr.lines().last().is_some_and(|line| line.contains(expected)), "{ended:#?}");
    }
    // The Service may get the address later, so the pod goes on and waits.
    pods.start(0);
    wait::becomes_true("the missing Service", || {
        pods.log(0).contains("needs a headless Service of that name")
    });
    assert_eq!(pods.hosts(0), Vec::<String>::new());
    pods.publish(&[0]);
    pods.await_machine(&[0]);
    pods.delete(0).expect_success();
}
