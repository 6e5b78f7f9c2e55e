//! Bytes that no client should send: others are unharmed, and memory is bounded.

use std::io::Write;

use crate::Served;
use crate::client::{Client, frame};

/// Pseudo-random numbers, the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn any_bytes_end_at_most_their_own_connection() {
    let served = Served::start();
    let mut witness = served.client();
    let mut chance = Chance(88_172_645_463_325_252);
    let kinds = b"QPBDECHSFdcfpX\0zZ";
    for round in 0..400 {
        // Before and after the introduction.
        let mut client = if round % 4 == 0 { Client::tcp(served.port) } else { served.client() };
        for _ in 0..8 {
            let body: Vec<u8> = (0..chance.next(40)).map(|_| chance.next(256) as u8).collect();
            let mut message = frame(kinds[chance.next(kinds.len())], &body);
            match chance.next(4) {
                0 => message.truncate(chance.next(message.len() + 1)),
                1 => {
                    let at = chance.next(message.len());
                    message[at] = chance.next(256) as u8;
                }
                _ => {}
            }
            if client.socket.write_all(&message).is_err() {
                break;
            }
        }
    }
    assert_eq!(witness.query("SELECT 1"), ["D 1", "SELECT 1", "ZI"]);
    assert_eq!(served.client().query("SELECT 2"), ["D 2", "SELECT 1", "ZI"]);
}

#[test]
fn lengths_that_are_said_take_no_memory() {
    let served = Served::start();
    served.client().query("SELECT 1");
    let before = resident_kib();
    let mut clients: Vec<_> = (0..200).map(|_| served.client()).collect();
    for client in &mut clients {
        // A Query of 200 MiB, of which nothing comes.
        client
            .socket
            .write_all(&[&b"Q"[..], &(200u32 << 20).to_be_bytes(), b"SELECT"].concat())
            .unwrap();
    }
    assert_eq!(served.client().query("SELECT 1"), ["D 1", "SELECT 1", "ZI"]);
    assert!(resident_kib() < before + 100_000);
    for (message, state) in [
        (frame(b'S', &[0; 20_000]), "08P01"),
        ([&b"Q"[..], &[0x7f, 255, 255, 255]].concat(), "08P01"),
        ([&b"Q"[..], &[0, 0, 0, 1]].concat(), "08P01"),
        (frame(b'z', b""), "08P01"),
    ] {
        let mut client = served.client();
        client.socket.write_all(&message).unwrap();
        assert_eq!(client.receive().unwrap().field('C').unwrap(), state);
        assert!(client.receive().is_none());
    }
}

#[test]
fn a_client_that_does_not_read_keeps_none_from_working() {
    let served = Served::start();
    let before = resident_kib();
    let mut slow: Vec<_> = (0..8).map(|_| served.client()).collect();
    for client in &mut slow {
        client.send(b'Q', b"SELECT repeat('x', 1000) FROM generate_series(1, 300000)\0");
    }
    for _ in 0..20 {
        assert_eq!(served.client().query("SELECT 1"), ["D 1", "SELECT 1", "ZI"]);
    }
    assert!(resident_kib() < before + 400_000);
}
